"""What moves the files of models: given to a node's own python3 as one program, which leaves nothing there."""
