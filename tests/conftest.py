"""Here so that modules that lie in this folder (`every_method`, `edge_crowds`) can be imported by the tests of all rooms."""
