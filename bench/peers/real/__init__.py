"""Makes records as they usually are: wide, with odd texts, some bad, some transformed."""
