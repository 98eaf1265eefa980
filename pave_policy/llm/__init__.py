"""The language-model runtime: prompts, transport, call store and the chat backbone."""
