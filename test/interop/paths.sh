# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# Where the programs that "build" and scripts/install-deps made are; sourced.

interop=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$interop/../.." && pwd)
built=$root/bin/interop
python=$root/.tools/interop-python/bin/python
node_modules=$root/.tools/interop-node/node_modules
jetty=/usr/share/java/jetty9-server.jar:/usr/share/java/jetty9-http.jar:/usr/share/java/jetty9-io.jar:/usr/share/java/jetty9-util.jar:/usr/share/java/servlet-api.jar
PATH=$root/.tools/bin:$PATH:/usr/sbin:/sbin
