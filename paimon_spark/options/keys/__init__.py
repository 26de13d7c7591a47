"""Every option, in files named by where it is defined: Java's class, and for `CoreOptions` what the key begins with."""
