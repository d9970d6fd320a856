"""From raw text to trees: characters to tokens, tokens to words, words to tags and lemmas, tags to trees."""
