from __future__ import annotations

import pytest

from srrag.lab.experiment.preference import Preference, advantage

# Table 2 of the paper: recall win, tie; precision win, tie; the advantage as printed (percent).
TABLE_2 = {
    "MedQA, vector": (48.5, 17.5, 69.0, 2.5, 28.4),
    "MedQA, graph": (41.0, 6.5, 57.0, 1.0, -0.4),
    "NLPEC, vector": (69.2, 8.3, 81.2, 3.1, 58.8),
    "NLPEC, graph": (64.2, 7.4, 73.2, 0.0, 42.4),
    "CMHD, vector": (8.0, 85.0, 14.5, 76.0, 13.2),
    "CMHD, graph": (7.8, 60.4, 19.8, 45.8, -69.8),
    "DDA, vector": (78.0, 18.0, 95.0, 0.0, 90.2),
    "DDA, graph": (31.0, 46.0, 78.0, 1.0, 32.8),
    "CMB-Clin, vector": (83.0, 0.5, 84.5, 0.0, 64.0),
    "CMB-Clin, graph": (72.0, 0.5, 74.0, 0.0, 46.4),
}
MISPRINTS = {"CMHD, graph": -48.8, "CMB-Clin, vector": 67.9}


@pytest.mark.parametrize("row", TABLE_2)
def test_the_printed_advantages_follow_from_their_columns_but_for_two(row: str) -> None:
    *shares, printed = TABLE_2[row]
    recall, precision = (Preference(w / 100, t / 100) for w, t in (shares[:2], shares[2:]))
    found = advantage(recall, precision)
    assert found is not None
    if row in MISPRINTS:
        assert 100 * found == pytest.approx(MISPRINTS[row], abs=0.1)
        assert abs(100 * found - printed) > 3
    else:
        assert 100 * found == pytest.approx(printed, abs=0.15)


def test_ties_and_losses() -> None:
    assert advantage(Preference(0, 1), Preference(0.5, 0)) is None
    assert advantage(Preference(0.5, 0), Preference(0, 1)) is None
    assert advantage(Preference(0, 0.5), Preference(0, 0)) == -1
    assert advantage(Preference(1, 0), Preference(1, 0)) == 1
    assert advantage(Preference(0.5, 0), Preference(0.5, 0)) == 0
    good = Preference(0.5, 0)
    for bad in (Preference(0.8, 0.3), Preference(-0.1, 0.5), Preference(0.5, -0.1)):
        for both in ((bad, good), (good, bad)):
            with pytest.raises(ValueError, match="shares of wins and ties"):
                advantage(*both)
