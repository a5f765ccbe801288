"""What was said and what is remembered: LLM messages, model contexts and long-term memory.

Only the frame exists so far. This package knows neither `broker` nor `actors`.
"""

__all__: list[str] = []
