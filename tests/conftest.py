"""Here so that what lies in this folder (`every_method`, `edge_crowds`) can be imported by all tests."""
