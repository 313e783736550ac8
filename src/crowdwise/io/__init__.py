"""One reader per format, all giving Answers; and writers."""
