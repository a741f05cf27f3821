// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/certtest"
)

// unread is an error as of a file without resources.
type unread struct{ error }

func (unread) Unreadable() {}

// A secret that is refused says why and since when, until one is taken; how often stays.
func TestSecretsTellWhatWasRefused(t *testing.T) {
	s, source := quietStore(nil), model.SecretSource{Name: "own", Socket: "s"}
	s.Follow([]*model.UpstreamTLS{{CertificateSecret: &source}})
	good, refused := &model.Secret{Certificate: &model.Certificate{}}, errors.New("no key")
	for _, fault := range []error{nil, refused, unread{refused}} {
		s.Put(source, good, "1", fault)
	}
	h := s.Held()[0]
	if h.Cause == nil || h.FaultAt.IsZero() || h.Fault != "no key" || h.Taken != 1 || h.Refused != 2 || h.Unread != 1 {
		t.Errorf("refused: %+v", h)
	}
	s.Put(source, good, "2", nil)
	if h := s.Held()[0]; h.Cause != nil || !h.FaultAt.IsZero() || h.Fault != "" || h.Taken != 2 || h.Refused != 2 || h.Version != "2" {
		t.Errorf("mended: %+v", h)
	}
}

// Files of a certificate that are refused say so, although what they held before is used; what several clusters name is one.
func TestCertificatesTellWhatWasRefused(t *testing.T) {
	s, path := quietStore(nil), filepath.Join(t.TempDir(), "ca.pem")
	authority := func() *model.UpstreamTLS {
		return &model.UpstreamTLS{Validation: model.Validation{CA: &model.Data{File: path}}}
	}
	contexts := []*model.UpstreamTLS{authority(), authority()}
	s.Follow(contexts)
	if list := s.Certificates(); len(list) != 0 {
		t.Errorf("before any connection: %+v", list)
	}
	write := func(text string) Outcome {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		for _, c := range contexts {
			if _, err := s.material(c); err != nil {
				t.Fatal(err)
			}
		}
		list := s.Certificates()
		if len(list) != 1 || list[0].Files != path {
			t.Fatalf("%+v, want one row of %s", list, path)
		}
		return list[0]
	}
	good := certtest.Sign(t, certtest.Authority(), nil).PEM()
	if o := write(good); o.Fault != nil || o.Taken.IsZero() || o.Refused != 0 {
		t.Errorf("good: %+v", o)
	}
	if o := write("none"); o.Fault == nil || o.FaultAt.IsZero() || o.Refused != 2 {
		t.Errorf("refused: %+v", o)
	}
	if o := write(good + "\n"); o.Fault != nil || !o.FaultAt.IsZero() || o.Refused != 2 {
		t.Errorf("mended: %+v", o)
	}
	if _, certificates := s.RefusedFiles(); certificates != 2 {
		t.Errorf("%d refusals are counted, want 2", certificates)
	}
}
