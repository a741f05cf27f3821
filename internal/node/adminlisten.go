// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/model"
)

// listenAdmin takes the address of the admin API; nil: there is none.
func listenAdmin(ctx context.Context, o Options, cfg *model.Config) (net.Listener, error) {
	address, asked := adminAddressOf(o, cfg)
	if address == "" {
		return nil, nil
	}
	l, err := admin.Listen(ctx, address)
	if err != nil && !asked {
		// As where a daemon starts beside another one.
		o.Logger.Warn("there is no admin API; name an address for it with --admin, or none", "err", err)
		return nil, nil
	}
	if err != nil || o.AdminAddressPath == "" {
		return l, err
	}
	if err := writeAddress(o.AdminAddressPath, l.Addr().String()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// adminAddressOf is the address of the admin API, and whether somebody has asked for it; empty: there is to be none. What the command line says goes
// before what the configuration says, as with a daemon that starts beside the one with the same file.
func adminAddressOf(o Options, cfg *model.Config) (address string, asked bool) {
	switch {
	case o.NoAdmin:
		return "", false
	case o.Admin != "":
		return o.Admin, true
	case cfg.Admin.IsValid():
		return cfg.Admin.String(), true
	case isListeners(o.AdminDefault, cfg):
		return "", false
	}
	return o.AdminDefault, false
}

// isListeners reports whether connections to an address are those of a listener, which would have them in place of the admin API.
func isListeners(address string, cfg *model.Config) bool {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	for _, l := range cfg.Listeners {
		if l.Address.Port() == a.Port() && (l.Address.Addr() == a.Addr() || l.Address.Addr().IsUnspecified()) {
			return true
		}
	}
	return false
}

// readOnly refuses to change anything, for the default address: every user of the host can connect to it, and no operator has named it.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == admin.LogPath && r.URL.Query().Has("level") {
			http.Error(w, "this is the default address of the admin API, which changes nothing; start the daemon with --admin to change the level of its log", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
