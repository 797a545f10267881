"""Parse untrusted XML: no entities are expanded, no DTD or network is used, sizes are capped."""

from __future__ import annotations

from html.entities import html5
from typing import Any

from lxml import etree

from srrag.corpus.parsed import Unparsable


def xml_root(body: bytes) -> etree._Element:
    """Parse XML; raises Unparsable("broken_xml") or ("unsafe_xml") if it declares entities."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unparsable("broken_xml", str(error).splitlines()[0]) from error
    if root is None:
        raise Unparsable("broken_xml", "no root element")
    internal = root.getroottree().docinfo.internalDTD
    if internal is not None and _declares_entities(internal):
        raise Unparsable("unsafe_xml", "the document declares entities of its own")
    return root


def _declares_entities(internal: Any) -> bool:  # the stubs lack DTD.entities
    return next(iter(internal.entities()), None) is not None


def local_name(node: etree._Element) -> str:
    """Return the element's name without its namespace; "" for entity references."""
    return etree.QName(node).localname if isinstance(node.tag, str) else ""


def entity_text(node: etree._Element) -> str:
    """Return the character of an unexpanded HTML reference such as &eacute;, else ""."""
    return html5.get((node.text or "").lstrip("&"), "")
