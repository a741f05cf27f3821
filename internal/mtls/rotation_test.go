// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/certtest"
)

// half writes the first part of a text in the place of a file, and leaves the rest to be written.
func half(t *testing.T, path, first, second string) (rest func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	write := func(text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	return func() {
		t.Helper()
		write(second)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, complaint string, holds func() bool) {
	t.Helper()
	await.Within(t, await.Patience, func() string {
		if holds() {
			return ""
		}
		return complaint
	})
}

// A bundle without its end is a valid one, and refuses half of the servers.
func TestBundleThatIsWrittenInItsPlaceIsTakenWhole(t *testing.T) {
	old, first, second := certtest.Sign(t, certtest.Authority(), nil), certtest.Sign(t, certtest.Authority(), nil), certtest.Sign(t, certtest.Authority(), nil)
	path := filepath.Join(t.TempDir(), "ca")
	move(t, path, old.PEM())
	s, context := quietStore(nil), &model.UpstreamTLS{Validation: model.Validation{CA: &model.Data{File: path}}}
	roots := func() *x509.CertPool {
		t.Helper()
		m, err := s.material(context)
		if err != nil {
			t.Fatal(err)
		}
		return m.roots
	}
	roots()
	rest := half(t, path, first.PEM(), second.PEM())
	for range 10 {
		if !roots().Equal(old.Pool()) {
			t.Fatal("a part of the bundle is taken")
		}
	}
	rest()
	whole := first.Pool()
	whole.AddCert(second.Certificate)
	eventually(t, "the whole bundle is not taken", func() bool { return roots().Equal(whole) })
}

// A chain without its end is a valid one, and no server knows who has signed it.
func TestChainThatIsWrittenInItsPlaceIsTakenWhole(t *testing.T) {
	authority := certtest.Sign(t, certtest.Authority(), nil)
	old, leaf := certtest.Sign(t, &x509.Certificate{}, authority), certtest.Sign(t, &x509.Certificate{}, authority)
	dir := t.TempDir()
	chain, key := filepath.Join(dir, "chain"), filepath.Join(dir, "key")
	move(t, chain, old.PEM()+authority.PEM())
	move(t, key, old.KeyPEM(t))
	s, context := quietStore(nil), &model.UpstreamTLS{Certificate: &model.Certificate{Chain: model.Data{File: chain}, Key: model.Data{File: key}}}
	held := func() [][]byte {
		t.Helper()
		m, err := s.material(context)
		if err != nil {
			t.Fatal(err)
		}
		return m.certificate.Certificate
	}
	held()
	rest := half(t, chain, leaf.PEM(), authority.PEM())
	move(t, key, leaf.KeyPEM(t))
	for range 10 {
		if got := held(); len(got) != 2 || string(got[0]) != string(old.Raw) {
			t.Fatalf("a part of the chain is taken: %d certificates", len(got))
		}
	}
	rest()
	eventually(t, "the whole chain is not taken", func() bool { return string(held()[0]) == string(leaf.Raw) && len(held()) == 2 })
}

// Where nothing was before there is nothing to go on with.
func TestBundleThatIsBeingWrittenAtTheFirstLookIsNotTaken(t *testing.T) {
	first, second := certtest.Sign(t, certtest.Authority(), nil), certtest.Sign(t, certtest.Authority(), nil)
	path := filepath.Join(t.TempDir(), "ca")
	move(t, path, "")
	rest := half(t, path, first.PEM(), second.PEM())
	s, context := quietStore(nil), &model.UpstreamTLS{Validation: model.Validation{CA: &model.Data{File: path}}}
	if _, err := s.material(context); err == nil || !strings.Contains(err.Error(), path+": is being written") {
		t.Errorf("got %v", err)
	}
	rest()
	m, err := s.material(context)
	if err != nil || m.roots.Equal(first.Pool()) {
		t.Errorf("written: %v", err)
	}
}

// exchange has a link lead to another directory, as Kubernetes does with all files of a secret.
func exchange(t *testing.T, link, to string) {
	t.Helper()
	if err := os.Symlink(to, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
}

// rotations are directories with a file "chain" and a file "key" each, and the link "data" to the first.
func rotations(t *testing.T, contents ...[2]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i, both := range contents {
		one := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(one, 0o700); err != nil {
			t.Fatal(err)
		}
		move(t, filepath.Join(one, "chain"), both[0])
		move(t, filepath.Join(one, "key"), both[1])
	}
	exchange(t, filepath.Join(dir, "data"), "0")
	return dir
}

// A renewed certificate may have the former key, so that the two not fitting does not show that they are of two rotations.
func TestFilesOfTwoRotationsAreNotTaken(t *testing.T) {
	dir := rotations(t, [2]string{"old", "old"}, [2]string{"new", "new"}, [2]string{"newest", "newest"})
	paths := []string{filepath.Join(dir, "data", "chain"), filepath.Join(dir, "data", "key")}
	s, known, next := quietStore(nil), &made[string]{}, 1
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	get := func(exchanges int) string {
		t.Helper()
		got, err := known.get(s, paths, func() (string, error) {
			chain := read(paths[0])
			if exchanges > 0 {
				exchanges--
				exchange(t, filepath.Join(dir, "data"), strconv.Itoa(next))
				next++
			}
			return chain + " " + read(paths[1]), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := get(1); got != "new new" {
		t.Errorf("at the first look: %q", got)
	}
	exchange(t, filepath.Join(dir, "data"), "0")
	next = 2
	if got := get(1); got != "newest newest" {
		t.Errorf("later: %q", got)
	}
}

// The files of many secrets are on a file system that hangs. Who asks for all of them holds locks that others wait for.
func TestSecretsThatHangAreNotWaitedForOneAfterTheOther(t *testing.T) {
	const secrets = 100
	dir, release := t.TempDir(), make(chan bool)
	s := quietStore(func(string, string) (*model.Secret, error) {
		<-release
		return &model.Secret{Validation: &model.Validation{}}, nil
	})
	var contexts []*model.UpstreamTLS
	for i := range secrets {
		path := filepath.Join(dir, strconv.Itoa(i))
		move(t, path, "x")
		contexts = append(contexts, &model.UpstreamTLS{ValidationSecret: &model.SecretSource{Name: strconv.Itoa(i), File: path}})
	}
	s.Follow(contexts)
	names, again := s.Pending(contexts, time.Now())
	if len(names) != secrets || again.IsZero() {
		t.Errorf("%d secrets are awaited, looked for at %v", len(names), again)
	}
	if all := s.Secrets(); len(all) != secrets || all[0].Secret != nil {
		t.Errorf("%d secrets are shown", len(all))
	}
	close(release)
	eventually(t, "secrets are awaited still", func() bool {
		names, _ := s.Pending(contexts, time.Now())
		return len(names) == 0
	})
}
