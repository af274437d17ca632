"""What lies in the folder of a file."""


def names(path):
    return sorted(p.name for p in path.parent.iterdir())
