FROM python:3.13-slim

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY callboard callboard
COPY examples examples
RUN pip install --no-cache-dir -c constraints.txt . && useradd --system callboard
# So that `examples.digest:app` is found whatever the command is started with.
ENV PYTHONPATH=/app
USER callboard
CMD ["callboard", "--help"]
