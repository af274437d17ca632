"""What a pipeline is made of: values, kinds, YAML, codecs and detectors.

Opens no socket, starts no thread, and reads only the files it is given.
"""
