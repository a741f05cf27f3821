// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

func TestWildcardsCoverTheFirstLabel(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.example", "A.example", true}, {"*.example", "a.example", true}, {"*.example", "example", false}, {"*.example", "a.b.example", false},
		{"a*c.example", "abc.example", true}, {"a*c.example", "ac.example", true}, {"a*a.example", "a.example", false}, {"xn--*.example", "xn--a.example", false},
		{"b.example", "a.example", false}, {"k.example", "\u212a.example", false}, {"*.k.example", "a.\u212a.example", false},
	} {
		if got := covers(c.pattern, c.name); got != c.want {
			t.Errorf("%s covers %s: %v", c.pattern, c.name, got)
		}
	}
}

func TestRequestsToSidecarsAreAnnouncedAsByIstio(t *testing.T) {
	for _, c := range []struct {
		offered []string
		http    bool
		want    []string
	}{
		{nil, true, []string{"http/1.1"}}, {nil, false, nil}, {[]string{"istio"}, true, []string{"istio-http/1.1", "istio", "http/1.1"}},
		{[]string{"istio"}, false, []string{"istio"}}, {[]string{"a"}, true, []string{"a"}},
	} {
		if got := protocols(&Peer{TLS: &model.UpstreamTLS{ALPN: c.offered}, HTTP: c.http}); !slices.Equal(got, c.want) {
			t.Errorf("%q, HTTP %v: %q", c.offered, c.http, got)
		}
	}
}

func TestNameThatIsSent(t *testing.T) {
	for _, c := range []struct {
		tls            model.UpstreamTLS
		hostname, host string
		want           string
	}{
		{model.UpstreamTLS{SNI: "a"}, "b", "c", "a"}, {model.UpstreamTLS{SNI: "a", AutoHostSNI: true}, "b", "c", "b"}, {model.UpstreamTLS{SNI: "a", AutoHostSNI: true}, "", "c", "a"},
		{model.UpstreamTLS{AutoSNI: true}, "b", "c:80", "c"}, {model.UpstreamTLS{AutoSNI: true}, "", "127.0.0.1:80", ""},
		{model.UpstreamTLS{AutoSNI: true, SNI: "a"}, "", "127.0.0.1:80", "a"}, {model.UpstreamTLS{AutoSNI: true, SNI: "a"}, "", "[::1]", "a"},
	} {
		if got := (&Peer{TLS: &c.tls, Hostname: c.hostname, Host: c.host}).ServerName(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestSecretsAreAwaited(t *testing.T) {
	s := NewStore(nil, slog.New(slog.DiscardHandler))
	context := &model.UpstreamTLS{CertificateSecret: &model.SecretSource{Name: "default", Socket: "s", Patience: time.Second}}
	if asked := s.Follow([]*model.UpstreamTLS{context}); len(asked) != 1 {
		t.Fatalf("%+v are asked for", asked)
	}
	if _, err := s.config(&Peer{TLS: context}); !errors.Is(err, errNotSupplied) {
		t.Errorf("without its secret: %v", err)
	}
	if missing, again := s.Pending([]*model.UpstreamTLS{context}, time.Now()); !slices.Equal(missing, []string{"default"}) || time.Until(again) > time.Second {
		t.Errorf("%q are missing, until %v", missing, again)
	}
	if missing, _ := s.Pending([]*model.UpstreamTLS{context}, time.Now().Add(time.Second)); missing != nil {
		t.Errorf("%q are waited for without end", missing)
	}
	changed := s.Changed()
	s.Put(*context.CertificateSecret, &model.Secret{Certificate: &model.Certificate{}}, "1", nil)
	if missing, _ := s.Pending([]*model.UpstreamTLS{context}, time.Now()); missing != nil {
		t.Errorf("%q are missing", missing)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told that the secret has come")
	}
}
