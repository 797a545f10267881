"""Explainable rules that read a study's design from its title and methods statement."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BEASTS = (
    r"rats|mice|lambs|sheep|piglets|pigs|dogs|rabbits|horses|swine|monkeys|zebrafish|broilers"
    r"|hamsters|drosophila"
)
_ANIMALS = (
    rf"{_BEASTS}|rat|mouse|murine|lamb|ovine|piglet|pig|porcine|dog|canine|rabbit|horse|equine"
    r"|monkey|broiler|calves|hamster"
)
_FROM_ANIMALS = (  # what people are given, or do with them
    r"(?:porcine|ovine|equine|rabbit|horse|dog|canine)[ -]"
    r"(?:surfactant|anti-?(?:thymocyte|lymphocyte)|heparin|valves?|walking|riding|ownership"
    r"|assisted)\b"
)
_TOPIC = (  # papers about guidelines are not guidelines
    r"adheren\w+|complian\w+|implement\w+|impact|effect\w*|awareness|knowledge|barriers?|apprais\w+"
    r"|quality of|according to|based on|concordan\w+|(?<!the )use of|uptake|attitudes?|perce\w+"
    r"|(?:re|over)view of|compar\w+|evaluat(?:ed|ing)|(?<!the )evaluation of|validat\w+"
    r"|trial|survey|cohort|cost\w*|reporting"
)
_DENIALS = ("not", "no", "nor", "neither", "without", "never")
_BEFORE = ("", "a ", "an ", "truly ", "true ", "a truly ", "a true ", "a prospective ")
_NOT_NON = r"\b(?<!non-)(?<!non )(?<!pseudo-)(?<!mendelian )" + "".join(
    rf"(?<!\b{denial} {words})" for denial in _DENIALS for words in (*_BEFORE, "a prospective, ")
)
_NOT_DONE = (
    r"(?! (?:was|were) (?:(?:impossible|infeasible|unfeasible)\b|not (?:possible|feasible"
    r"|performed|done|used|carried out|undertaken|conducted|practicable|applied|attempted)\b))"
)


_HYPHENS = str.maketrans("\u2010\u2011\u2012\u2013", "----")


@dataclass(frozen=True)
class Rule:
    """A pattern that sets a grade where it matches one field of a document."""

    name: str
    grade: str
    field: str
    pattern: re.Pattern[str]


def _rule(name: str, grade: str, field: str, pattern: str) -> Rule:
    return Rule(name, grade, field, re.compile(pattern, re.IGNORECASE))


_QUOTE = r"[\"'\u2018\u2019\u201c\u201d]"

# The first hit wins. Only a title can mark a guideline: an abstract's own words
# can never lift a document to grade A.
RULES: tuple[Rule, ...] = (
    _rule(  # a letter has the name of the paper that it may speak against
        "letter_title",
        "E",
        "title",
        r"\A\W*(?:(?:in )?(?:re|response to|reply(?: to)?|reply by the authors?)"
        rf"(?:\s?:| ?(?={_QUOTE}))"
        r"|(?:an? )?(?:comment(?:s|ary)?|letter(?: to the editor)?)(?: on\b| regarding\b|\s?:)"
        r"|(?:an? )?letter to the editor\b|(?:an? )?critique of\b"
        r"|(?:erratum|corrigendum)\b|correction(?: to)?\s?:)"
        r"|: an? (?:critique|commentary)\W*\Z"
        r"|\bauthors?['\u2019]?s? (?:reply|response)\W*\Z",
    ),
    _rule(
        "animal_title",
        "E",
        "title",
        rf"\b(?:in|of|on|using|for) (?:[\w-]+ ){{0,3}}(?!{_FROM_ANIMALS})(?:{_ANIMALS})\b"
        r"(?! (?:bites?|owners?|allerg))"
        r"|\b(?:animal|rat|mouse|porcine|murine|canine) (?:model|study)\b"
        r"|\bin vitro\b(?! (?:fertili|matur))",
    ),
    _rule(
        "animal_methods",
        "E",
        "methods",
        rf"\b(?:{_BEASTS}) (?:were|was|weighing)\b|\brandom\w+[^.]{{0,80}}\b(?:{_ANIMALS}) model\b"
        r"|\banimal study\b",
    ),
    _rule(
        "protocol_title",
        "E",
        "title",
        r"\b(?:study|trial|review) protocols?\b|\bstatistical analysis plan\b"
        r"|[:.–-] (?:an? )?protocol\b|^protocol\s?:"
        r"|\bprotocols? (?:for|of) (?:an? |the )?(?:[\w()-]+ ){0,10}(?:trial|study|review)\b"
        r"|\bdesign and rationale\b|\brationale and (?:study )?design\b",
    ),
    _rule(
        "design_subtitle",
        "E",
        "title",
        r"[:.?-] (?:an? )?(?:(?!random)[\w-]+,? ){0,2}"
        r"(?:cross-sectional|case-control|qualitative) (?:study|analysis|survey)\b(?! and\b)",
    ),
    _rule(
        "guideline_title",
        "A",
        "title",
        rf"\A(?!.*\b(?:{_TOPIC})\b|.*\?|(?:[\w-]+ )?guidelines:"
        r"|.*[:.-] (?:an? )?(?:[\w-]+ ){0,3}reviews?\b(?! and (?:[\w-]+ ){0,4}(?:guidelines?"
        r"|guidance|recommendations?|consensus|statement)\b))"
        r".*?\b(?:(?:clinical|practice|treatment|management|evidence-based) guidelines?"
        r"|guidelines? (?:for|on|of|from)|(?:consensus|position|scientific|recommendation)"
        r" (?:statement|report|paper|stand|guidelines?|recommendations?|document)s?"
        r"|expert consensus|delphi consensus|(?:recommendations|guidance) (?:of|from) (?:the|an?)\b"
        r"|(?-i:[A-Z][A-Z/-]+[A-Z]) (?:recommendations|guidelines?|guidance)\b)",
    ),
    _rule(
        "protocol_methods",
        "E",
        "methods",
        r"\bwill be (?:randomi[sz]ed|randomly (?:assigned|allocated|divided)|recruited|enrolled)\b"
        r"|\bthis is a (?:study )?protocol (?:for|of)\b"
        r"|\bmethods?/design\b",  # the heading of BMC's protocols
    ),
    _rule(
        "review_title",
        "B",
        "title",
        r"(?<!how to write a )(?<!reporting )"
        r"\b(?:systematic(?:ally)? (?:\w+ )?review\w*|systematic literature review"
        r"|meta-?analys[ie]s"
        r"|meta-analytic\w*|meta-?regression"
        r"|(?<!based on )individual (?:patient|participant)[- ](?:level )?data"
        r"|cochrane review|umbrella review"
        r"|(?:review|overview) of (?:systematic reviews|randomi[sz]ed))",
    ),
    _rule(
        "quasi_experiment",
        "D",
        "title",
        r"\b(?:quasi-?experiment\w*|non-?randomi[sz]ed|historical(?:ly)? control\w*"
        r"|trial emulation|emulat\w+ (?:[\w-]+ ){0,4}trial)\b",
    ),
    _rule(
        "cross_section_methods",
        "E",
        "methods",
        r"\b(?:this|an?) (?:[\w-]+ )?cross-sectional (?:study|analysis) (?:was|of|with|within)\b",
    ),
    _rule(
        "trial_title",
        "C",
        "title",
        _NOT_NON + rf"(?:randomi[sz]ed|randomi[sz]ation{_NOT_DONE}|rct)\b"
        r"(?! (?:controlled |clinical )?trials\b)"
        r"|\b(?:double|single|triple)-?(?: )?(?:blind|masked)|\bplacebo-? ?controlled\b"
        r"|\bcross-? ?over (?:trial|study|design)\b",
    ),
    _rule(
        "review_methods",
        "B",
        "methods",
        r"(?<!\bno )(?<!without )(?<!without a )"
        r"\b(?:systematic (?:literature )?(?:review|search)(?! protocol)\b"
        r"|systematically (?:review|search)ed"
        r"|this (?:[\w-]+ ){0,2}meta-?analys[ie]s"
        r"|(?:performed|conducted|undert\w+|carried out|did) (?:a|an"
        r"|the)?(?: [\w-]+){0,3} meta-?analys[ie]s"
        r"|(?:medline|pubmed|embase|cinahl|cochrane library|web of science)\b[^.]{0,80}\bsearch\w*"
        r"|search\w*\b[^.]{0,80}\b(?:medline|pubmed|embase|cinahl|cochrane library"
        r"|web of science))",
    ),
    _rule(
        "design_title",
        "E",
        "title",
        r"\b(?:case reports?|case series|cross-sectional|case-control|(?:narrative|scoping) review"
        r"|qualitative (?:study|analysis|evaluation|exploration))\b",
    ),
    _rule(
        "cohort_study_title",
        "D",
        "title",
        r"\b(?:cohort|observational) (?:study|analysis)\b",
    ),
    _rule(
        "qualitative_methods",
        "E",
        "methods",
        r"\bphenomenological (?:study|design|approach)\b"
        r"|\bqualitative (?:descriptive )?(?:study|design|approach)\b",
    ),
    _rule(
        "observational_study",
        "D",
        "methods",
        r"\bretrospective (?:chart |case )?review\b|\bemulat\w+ (?:[\w-]+ ){0,4}trial\b"
        r"|\bobservational,? (?![\w, ]{0,12}cross-section)(?:[\w-]+,? ){0,2}(?:study|cohort)\b",
    ),
    _rule(
        "quasi_experiment_methods",
        "D",
        "methods",
        r"\b(?:quasi-?experiment\w*|non-?randomi[sz]ed (?:[\w-]+ ){0,2}(?:trial|study|design"
        r"|comparison)"
        r"|historical controls?)\b",
    ),
    _rule(
        "randomised_methods",
        "C",
        "methods",
        _NOT_NON + r"(?:randomi[sz]ed(?!,? (?:survey|sampl\w+|selection|stimul\w+|block design)\b"
        r"|(?: |-)?(?:controlled|clinical)? ?(?:controlled )?trials\b|controlled-trials)"
        r"|randomly (?:[\w-]+ ){0,2}?(?:assign\w*|allocat\w*|divid\w*|distribut\w*|receiv\w*"
        r"|randomi\w*"
        r"|assort\w*|treated|grouped|separated|given|administered)"
        r"|(?:assign\w*|allocat\w*|divid\w*)(?: (?!not\b)[\w-]+){0,4}?"
        r" (?:randomly|at random|by random\w*)\b"
        rf"|random(?:i[sz]ed)? (?:allocation|assignment)|randomi[sz]ation{_NOT_DONE}"
        r"|randomi[sz]ing"
        r"|(?:double|triple|observer|assessor)-? ?(?:blind|masked)|placebo-? ?controlled"
        r"|cross-? ?over (?:[\w-]+ )?(?:trial|study|design|experiment|manner|fashion))",
    ),
    _rule(
        "observational_title",
        "E",
        "title",
        r"\b(?:case reports?|case series|a case of|cross-sectional|case-control|qualitative"
        r"|narrative review|literature review|scoping review|editorial|questionnaire"
        r"|(?<!follow-up )survey)\b",
    ),
    _rule(
        "cohort_title",
        "D",
        "title",
        r"\b(?:cohort|prospective|longitudinal|follow-?up|registry(?:-based)?)"
        r" ?(?:study|analysis)\b"
        r"|\bprospective cohort\b",
    ),
    _rule(
        "observational_methods",
        "E",
        "methods",
        r"\b(?:case-control (?:study|design|analysis)|cross-sectional(?:ly)?|case reports?"
        r"|case series"
        r"|semi-structured interviews?|focus groups?|qualitative (?:study|analysis|interviews?)"
        r"|(?:narrative|literature|scoping) review|decision (?:analy\w+|tree)|in vitro"
        r"|cadaver\w*)\b",
    ),
    _rule(
        "cohort_methods",
        "D",
        "methods",
        r"\b(?:cohort|prospective(?:ly)?|retrospective(?:ly)?|registry"
        r"|(?<!and )longitudinal(?:ly)?(?! and\b| axis| section)"  # of a vein, or of a study
        r"|follow(?:ed)?-? ?up (?:study|for|of|period)|chart review"
        r"|(?:followed|traced) (?:[\w-]+ ){0,4}(?:years?|months?)"
        r"|(?:charts?|medical records?) (?:were|was|of)|consecutive (?:patients|cases))\b"
        r"|\b(?:patients|women|men|children|cases)\b[^.]{0,120}\b(?:between|from) [^.]{0,20}"
        r"(?:19|20)\d\d (?:and|to|through) [^.]{0,20}(?:19|20)\d\d\b",
    ),
    _rule(
        "survey_methods", "E", "methods", r"\b(?:questionnaires?|surveys?|surveyed|interview\w*)\b"
    ),
)

DECISIVE_RULES = frozenset(
    [
        "letter_title",
        "guideline_title",
        "protocol_title",
        "protocol_methods",
        "review_title",
        "trial_title",
        "review_methods",
        "randomised_methods",
    ]
)
"""Rules that override a MeSH heading of cohort work: trials carry "Follow-Up Studies" too."""


def first_hit(fields: dict[str, str]) -> tuple[Rule, str] | None:
    """Return the first rule that finds its pattern, and the words it found."""
    lines = {  # texts may be wrapped, and hyphens be those of a typesetter
        name: " ".join(text.translate(_HYPHENS).split()) for name, text in fields.items()
    }
    for rule in RULES:
        match = rule.pattern.search(lines.get(rule.field, ""))
        if match:
            return rule, match[0][-120:]
    return None
