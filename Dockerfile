# memoryhub's image: web and workers, for a PostgreSQL elsewhere (docker-compose.yml brings one).
FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b

# PYTHONDONTWRITEBYTECODE: the program's files belong to root, and it may not write among them.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOST=0.0.0.0 PORT=8000 \
    MEMORYHUB_DATA_DIR=/var/lib/memoryhub PATH=/opt/memoryhub/bin:$PATH

RUN useradd --system --uid 10001 --home-dir /var/lib/memoryhub --create-home memoryhub \
    && install -d -o memoryhub -m 0700 /var/lib/memoryhub/imports
WORKDIR /srv/memoryhub

COPY requirements.lock ./
RUN python -m venv /opt/memoryhub \
    && pip install --no-cache-dir --require-hashes -r requirements.lock

COPY manage.py LICENSE ./
COPY memoryhub memoryhub
COPY conversations conversations
COPY strength strength
COPY summaries summaries
COPY templates templates
COPY docs/reference/openapi.yaml docs/reference/openapi.yaml
RUN python -m compileall -q .

USER memoryhub
VOLUME /var/lib/memoryhub
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "manage.py"]
CMD ["serve"]
