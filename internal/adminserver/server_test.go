// SPDX-License-Identifier: Apache-2.0

package adminserver

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/tcptest"
)

func TestAddressOfTheAdminAPI(t *testing.T) {
	const usual = "127.0.0.1:9901"
	named := &model.Config{Admin: netip.MustParseAddrPort("127.0.0.1:15000")}
	piped := &model.Config{AdminPipe: model.Pipe{Path: "/run/xlb/admin.sock", Mode: 0o660}}
	serving := func(address string) *model.Config {
		return &model.Config{Listeners: []*model.Listener{{Address: netip.MustParseAddrPort(address)}}}
	}
	for _, tt := range []struct {
		name    string
		options Options
		config  *model.Config
		want    string
		asked   bool
	}{
		{"no address is named", Options{Default: usual}, &model.Config{}, usual, false},
		{"no address is named, and there is no default", Options{}, &model.Config{}, "", false},
		{"the configuration", Options{Default: usual}, named, "127.0.0.1:15000", true},
		{"the command line", Options{Default: usual, Address: ":1"}, named, ":1", true},
		{"the configuration, a Unix socket", Options{Default: usual}, piped, "unix:/run/xlb/admin.sock", true},
		{"the command line, a Unix socket", Options{Default: usual, Address: "unix:/run/other.sock"}, piped, "unix:/run/other.sock", true},
		{"there is to be no Unix socket", Options{Default: usual, None: true}, piped, "", false},
		{"there is to be no admin API", Options{Default: usual, None: true}, named, "", false},
		{"a listener has it", Options{Default: usual}, serving(usual), "", false},
		{"a listener has its port everywhere", Options{Default: usual}, serving("0.0.0.0:9901"), "", false},
		{"a listener has its port everywhere in IPv6", Options{Default: usual}, serving("[::]:9901"), usual, false},
		{"a listener has its port everywhere in IPv4, and it is of IPv6", Options{Default: "[::1]:9901"}, serving("0.0.0.0:9901"), "[::1]:9901", false},
		{"a listener has its port everywhere, and both are of IPv6", Options{Default: "[::1]:9901"}, serving("[::]:9901"), "", false},
		{"a listener has its port everywhere, and it is IPv4 in IPv6", Options{Default: "[::ffff:127.0.0.1]:9901"}, serving("0.0.0.0:9901"), "", false},
		{"a listener has another port", Options{Default: usual}, serving("0.0.0.0:9902"), usual, false},
	} {
		if got, asked := tt.options.addressFor(tt.config); got != tt.want || asked != tt.asked {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.name, got, asked, tt.want, tt.asked)
		}
	}
}

func TestAdminAddressInUseIsAnErrorOnlyIfAnOperatorHasNamedIt(t *testing.T) {
	taken := tcptest.Listen(t, nil).String()
	var log strings.Builder
	o := Options{Default: taken, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	l, err := Listen(t.Context(), o, &model.Config{})
	if l != nil || err != nil || !strings.Contains(log.String(), "already in use") {
		t.Errorf("default: got %v, %v and the log %q, want none and a line that says why", l, err, log.String())
	}
	o.Address = taken
	if l, err := Listen(t.Context(), o, &model.Config{}); err == nil {
		t.Errorf("--admin: got %v, want an error", l.listener.Addr())
	}
}

// A listener that a later configuration has at the default address finds it free.
func TestDefaultAdminAddressGoesToAListenerOfALaterConfiguration(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		var log strings.Builder
		l, err := admin.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := netip.MustParseAddrPort(l.Addr().String())
		s := &Server{o: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, listener: l}
		var running sync.WaitGroup
		running.Go(s.Serve(t.Context(), http.NotFoundHandler()))
		listeners := []*model.Listener{{Name: "elsewhere", Address: netip.AddrPortFrom(address.Addr(), address.Port()^1)}}
		s.Yield(&model.Config{Listeners: listeners})
		if s.unasked == nil {
			t.Fatalf("the admin API at %s has ended for a listener at %s", address, listeners[0].Address)
		}
		web := &model.Listener{Name: "web", Address: address}
		if everywhere {
			web.Address = netip.AddrPortFrom(netip.IPv4Unspecified(), address.Port())
		}
		for range 2 {
			s.Yield(&model.Config{Listeners: append(listeners, web)})
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a listener at %s: the admin API has the address still, %v", web.Address, err)
		}
		running.Wait()
		if said := strings.Count(log.String(), "--admin"); said != 1 || !strings.Contains(log.String(), "address="+address.String()+" listener=web") {
			t.Errorf("a listener at %s: the log does not say once what has the address, and the remedy:\n%s", web.Address, log.String())
		}
	}
}

func TestDefaultAdminAddressChangesNothing(t *testing.T) {
	h := readOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for target, want := range map[string]int{
		"/logging?level=off": http.StatusForbidden, "/logging": http.StatusOK, "/logging?format=json": http.StatusOK,
		"/xlb/workloads/release?netns=7": http.StatusForbidden, "/xlb/workloads/join": http.StatusForbidden, "/xlb/workloads": http.StatusOK, "/envoy.service.status.v3": http.StatusOK,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, nil))
		if w.Code != want {
			t.Errorf("POST %s: got %d, want %d", target, w.Code, want)
		}
	}
}

// The mode is that of the configuration where its path is, and for root and the daemon's user alone where the command line names the path.
func TestUnixSocketOfTheAdminAPI(t *testing.T) {
	dir := t.TempDir()
	configured, named := filepath.Join(dir, "configured.sock"), filepath.Join(dir, "named.sock")
	cfg := &model.Config{AdminPipe: model.Pipe{Path: configured, Mode: 0o660}}
	for _, tt := range []struct {
		name, address, path string
		mode                fs.FileMode
	}{
		{"of the configuration", "", configured, 0o660},
		{"of the command line", "unix:" + named, named, 0o600},
	} {
		var log strings.Builder
		o := Options{Address: tt.address, AddressPath: filepath.Join(dir, "address"), Logger: slog.New(slog.NewTextHandler(&log, nil))}
		s, err := Listen(t.Context(), o, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(tt.path); err != nil || info.Mode() != fs.ModeSocket|tt.mode {
			t.Errorf("%s: got %v, %v, want a socket with mode %o", tt.name, info, err, tt.mode)
		}
		// As Envoy writes it.
		mustContain(t, o.AddressPath, tt.path)
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(s.Serve(ctx, http.NotFoundHandler()))
		s.Yield(&model.Config{})
		conn, err := net.Dial("unix", tt.path)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		end()
		running.Wait()
		if _, err := os.Lstat(tt.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the socket is left: %v", tt.name, err)
		}
		if !strings.Contains(log.String(), "address=unix:"+tt.path) {
			t.Errorf("%s: the log does not name the address as --admin takes it:\n%s", tt.name, log.String())
		}
	}
}
