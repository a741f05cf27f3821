// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"golang.org/x/sys/unix"
)

// remedy is what an operator can do about a runtime that cannot be connected to.
func remedy(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "make the socket root's, or writable for all: the daemon has no CAP_DAC_OVERRIDE, of root neither; or leave the runtime alone with --nri=off"
	}
	return "enable NRI in the runtime, name its socket with --nri, or leave it alone with --nri=off"
}

// failed counts and logs that a connection could not be made, or has ended.
func (c *Client) failed(err error) {
	c.setSynchronized()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Optional && isAbsent(err) {
		c.cfg.Logger.Debug("no container runtime offers NRI", "socket", c.cfg.Socket, "err", err)
		return
	}
	c.state.Failed++
	if c.warned == err.Error() {
		c.cfg.Logger.Debug("no connection to the container runtime", "socket", c.cfg.Socket, "err", err)
		return
	}
	c.warned = err.Error()
	c.cfg.Logger.Warn("no connection to the container runtime; will retry. Pods that begin meanwhile have no names and labels, and are served later", "socket", c.cfg.Socket,
		"err", err, "remedy", remedy(err))
}

// isAbsent reports that no program listens at the socket: the runtime has not started, is about to start again, or has no NRI.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED)
}

// logger has the library's lines at the level of debugging: what matters of them the Client logs itself.
type logger struct{ log *slog.Logger }

func (l logger) Debugf(ctx context.Context, format string, args ...any) { l.line(ctx, format, args) }
func (l logger) Infof(ctx context.Context, format string, args ...any)  { l.line(ctx, format, args) }
func (l logger) Warnf(ctx context.Context, format string, args ...any)  { l.line(ctx, format, args) }
func (l logger) Errorf(ctx context.Context, format string, args ...any) { l.line(ctx, format, args) }

func (l logger) line(ctx context.Context, format string, args []any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "NRI", "line", fmt.Sprintf(format, args...))
	}
}
