"""Where the .app begins: a package with the name of the app, as Briefcase asks for one."""
