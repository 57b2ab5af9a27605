"""A fuzz harness: hostile calls, command lines and files, and an oracle that says whether the answer is one of ours."""
