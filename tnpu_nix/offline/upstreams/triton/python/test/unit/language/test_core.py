import triton


def test_version():
    assert triton.__version__.startswith("3.")
