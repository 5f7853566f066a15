# bigjoin with Python and Java:
#   docker build -t bigjoin .
#   docker run --rm bigjoin demo
#   docker run --rm -v "$PWD:/data" bigjoin count triangle edges.csv
FROM python:3.11-slim-bookworm AS build

COPY . /source
RUN python -m venv /opt/bigjoin \
    && pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source \
    && /opt/bigjoin/bin/pip install --no-cache-dir --constraint /source/constraints.txt /wheels/*.whl \
    # Whole seconds: an image does not keep fractions, and the archive of classes below is for jars of exactly this time.
    && find /opt/bigjoin -exec touch --no-dereference --date=@1700000000 {} +

FROM python:3.11-slim-bookworm

# Debian serves only the newest build of a package, so a pinned version would soon not be found.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 bigjoin \
    && install --directory --owner=bigjoin /data

COPY --from=build /opt/bigjoin /opt/bigjoin
ENV PATH="/opt/bigjoin/bin:$PATH"
USER 1000
WORKDIR /data

# The first commands compile kernels and let the JVM keep its classes: in the image, both are done.
RUN python -P -m bigjoin.spark.class_archive \
    && bigjoin demo --quiet

ENTRYPOINT ["bigjoin"]
CMD ["--help"]
