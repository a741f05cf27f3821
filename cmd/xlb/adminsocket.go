// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// adminUsage is the help of --admin of the verbs that send requests to a daemon.
const adminUsage = "`address` of the daemon's admin API, host:port or unix:PATH"

// adminHost stands for the daemon in a URL, where the address is the path of a Unix socket.
const adminHost = "localhost"

// socketOf is the path of the Unix socket that an admin address names; is: it names one.
func socketOf(address string) (path string, is bool) {
	return strings.CutPrefix(address, admin.UnixScheme)
}

// checkSocket refuses what is no path of a Unix socket.
func checkSocket(path string) error {
	if err := model.CheckPipePath(path); err != nil {
		return fmt.Errorf("admin address %s%s: %w", admin.UnixScheme, path, err)
	}
	return nil
}

// adminClient is the client for one question at an admin address, and the host that stands for it in a URL: it keeps nothing open, and takes no proxy from
// the environment.
func adminClient(address string) (client *http.Client, host string) {
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: int64(limits.AdminClient.HeadBytes)}
	host = address
	if path, is := socketOf(address); is {
		host = adminHost
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return &http.Client{Transport: transport}, host
}

// unreachable says why no daemon answers at an admin address, and what to do. nil: that is not known.
func unreachable(address string, err error) error {
	path, is := socketOf(address)
	switch {
	case !is && errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("admin address %s: nobody listens; start \"xlb run\", or name its admin address with --admin", address)
	case !is:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("admin address %s: there is no such file; start \"xlb run --admin %[1]s\", or name the admin address of a running daemon with --admin", address)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("admin address %s: permission denied; ask as root or the daemon's user, or have admin.address.pipe.mode of the daemon's bootstrap let this user read", address)
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(path):
		return fmt.Errorf("admin address %s: the file is no socket; name the admin address of a running daemon with --admin", address)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("admin address %s: no process listens: the daemon that made the socket has ended; start it again, which replaces the socket, or name the admin address of a running daemon with --admin", address)
	}
	return nil
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}
