from bigjoin.errors import QueryError
def syntax_error(text, error):
    raise error
