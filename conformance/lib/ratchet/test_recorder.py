"""The names under which results are kept."""

from recorder import stable_name


def test_the_made_up_part_of_a_name_is_left_out():
    made_up = "test_a.py::T::test_b[Container-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0]"
    assert stable_name(made_up) == "test_a.py::T::test_b[Container]"


def test_a_name_without_made_up_parts_stays():
    assert stable_name("test_a.py::T::test_b[12-x]") == "test_a.py::T::test_b[12-x]"
