# Untested: nobody has built this image yet. Delete this line when you have.
#
#   docker build -t lodge .
#   docker run --rm -it -v lodge:/home/lodge/state -p 127.0.0.1:8764:8764 lodge tls init
#   docker run -d -v lodge:/home/lodge/state -p 127.0.0.1:8764:8764 lodge
#
# Inside a container the host listens on every address, so it wants a certificate: `tls init` makes one in the volume.

# Debian 11: what is built here runs with every GNU C library from 2.31 on.
FROM debian:bullseye AS build
RUN apt-get update && apt-get install --yes --no-install-recommends build-essential ca-certificates curl xz-utils git
RUN curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain 1.95.0
# Node.js builds the page.
RUN node=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/') \
    && curl -sSf "https://nodejs.org/dist/v20.20.2/node-v20.20.2-linux-$node.tar.xz" | tar -xJ --strip-components=1 -C /usr/local
ENV PATH=/root/.cargo/bin:$PATH
WORKDIR /src
COPY . .
RUN LODGE_PORTABLE=1 LODGE_WEB=require cargo build --locked --profile dist --package lodge

FROM debian:bookworm-slim
# What agents' commands need most; certificates for calls to models.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates git ripgrep && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 lodge && install -d -o lodge -g lodge /home/lodge/state /work
COPY --from=build /src/target/dist/lodge /usr/local/bin/lodge
USER lodge
ENV LODGE_HOME=/home/lodge/state
WORKDIR /work
VOLUME ["/home/lodge/state"]
EXPOSE 8764
HEALTHCHECK CMD ["/usr/local/bin/lodge", "status"]
ENTRYPOINT ["/usr/local/bin/lodge"]
CMD ["serve", "--listen", "0.0.0.0:8764"]
