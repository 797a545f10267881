from srrag.expand.invented import invented_populations


def test_populations_that_the_question_does_not_speak_of_are_found() -> None:
    text = "Elderly women with diabetes were enrolled. Patients received night splints."
    (found,) = invented_populations(text, "Do night splints help heel pain?")
    assert "women" in found
    assert invented_populations(text, "Do splints help women?") == []


def test_nobody_in_particular_is_no_population_of_its_own() -> None:
    text = "Patients were included. The participants received splints. Adults were studied."
    assert invented_populations(text, "Do night splints help heel pain?") == []
    assert invented_populations("", "Why?") == []
