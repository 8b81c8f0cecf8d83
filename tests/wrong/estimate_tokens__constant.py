# fails: empty, grows, tool-calls, tool-results, special-text, band-english, band-chinese, band-japanese, band-json, different, within-10-percent
# A number that somebody saw once.
def estimate_tokens(history):
    return 1200
