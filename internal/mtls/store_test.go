// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
)

func quietStore(read func(path, name string) (*model.Secret, error)) *Store {
	return NewStore(read, slog.New(slog.DiscardHandler))
}

// move puts a file into its place, as a whole.
func move(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// What was made of a secret is forgotten with it, however often it changes, and kept while it stays.
func TestRotationLeavesNothingBehind(t *testing.T) {
	s, source := quietStore(nil), model.SecretSource{Name: "roots", Socket: "s"}
	contexts := []*model.UpstreamTLS{{ValidationSecret: &source}}
	s.Follow(contexts)
	for range 1000 {
		s.Put(source, &model.Secret{Validation: &model.Validation{CA: &model.Data{Inline: []byte("none")}}}, "1", nil)
		if _, err := s.material(contexts[0]); err == nil {
			t.Fatal("an authority without a certificate is taken")
		}
	}
	if len(s.roots) != 1 {
		t.Errorf("%d results are kept", len(s.roots))
	}
	s.Follow(contexts)
	if len(s.roots) != 1 {
		t.Error("the result is gone with a configuration that needs it")
	}
	s.Follow(nil)
	if len(s.roots)+len(s.held) != 0 {
		t.Errorf("%d results, %d secrets are kept for nobody", len(s.roots), len(s.held))
	}
}

// A file that is not there is waited for, and one that cannot be used is not; what it held before stays.
func TestFilesOfSecretsComeAndChange(t *testing.T) {
	path, fault := filepath.Join(t.TempDir(), "secret"), error(nil)
	reads := 0
	s := quietStore(func(string, string) (*model.Secret, error) {
		reads++
		return &model.Secret{Certificate: &model.Certificate{}}, fault
	})
	source := model.SecretSource{Name: "own", File: path}
	contexts := []*model.UpstreamTLS{{CertificateSecret: &source}}
	s.Follow(contexts)
	if names, again := s.Pending(contexts, time.Now()); len(names) != 1 || time.Until(again) > filePace {
		t.Errorf("%q are awaited, looked for at %v", names, again)
	}
	write := func(text string) {
		t.Helper()
		move(t, path, text)
	}
	write("1")
	if names, _ := s.Pending(contexts, time.Now()); names != nil {
		t.Errorf("%q are awaited", names)
	}
	fault = errors.New("truncated")
	write("22")
	for range 10 {
		held := s.Secrets()[0]
		if held.Secret == nil || held.Fault != "truncated" {
			t.Errorf("the secret before is gone: %+v", held)
		}
	}
	if reads != 2 {
		t.Errorf("the file was read %d times", reads)
	}
}

// Files that do not fit stay without effect, and are read once.
func TestFilesThatDoNotFitLeaveWhatWasBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca")
	good, tries := true, 0
	attempt := func() (int, error) {
		tries++
		if good {
			return tries, nil
		}
		return 0, errors.New("broken")
	}
	s, known := quietStore(nil), &made[int]{}
	get := func() (int, error) {
		t.Helper()
		return known.get(s, []string{path}, attempt)
	}
	if got, err := get(); got != 1 || err != nil {
		t.Fatal(got, err)
	}
	good = false
	move(t, path, "x")
	for range 10 {
		if got, err := get(); got != 1 || err != nil {
			t.Fatal(got, err)
		}
	}
	if tries != 2 {
		t.Errorf("made %d times", tries)
	}
}

// Files that have no end, or too much in them, are not read.
func TestFilesWithoutAnEnd(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, files.Text+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", large} {
		if _, err := textOf(&model.Data{File: path}); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

// The control plane sends a secret once, whoever asks for it.
func TestSecretsOfTheControlPlaneAreShared(t *testing.T) {
	s := quietStore(nil)
	first, second := model.SecretSource{Name: "own", ADS: true, Patience: time.Second}, model.SecretSource{Name: "own", ADS: true}
	one, two := &model.UpstreamTLS{CertificateSecret: &first}, &model.UpstreamTLS{CertificateSecret: &second}
	s.Follow([]*model.UpstreamTLS{one})
	s.Put(first, &model.Secret{Certificate: &model.Certificate{}}, "1", nil)
	s.Follow([]*model.UpstreamTLS{one, two})
	if names, _ := s.Pending([]*model.UpstreamTLS{two}, time.Now()); names != nil || len(s.Aggregated("own")) != 2 {
		t.Errorf("%q are awaited", names)
	}
}

// The file of one secret is on a file system that hangs. Handshakes that need others go on.
func TestAFileThatHangsHoldsItsOwnConnectionsAlone(t *testing.T) {
	dir, hangs, release := t.TempDir(), make(chan bool, 1), make(chan bool)
	paths := [2]string{filepath.Join(dir, "slow"), filepath.Join(dir, "fast")}
	for _, path := range paths {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := quietStore(func(path, _ string) (*model.Secret, error) {
		if path == paths[0] {
			hangs <- true
			<-release
		}
		return &model.Secret{Validation: &model.Validation{}}, nil
	})
	contexts := []*model.UpstreamTLS{{ValidationSecret: &model.SecretSource{Name: "slow", File: paths[0]}}, {ValidationSecret: &model.SecretSource{Name: "fast", File: paths[1]}}}
	s.Follow(contexts)
	done := [2]chan error{make(chan error, 1), make(chan error, 1)}
	begin := func(i int) {
		_, err := s.material(contexts[i])
		done[i] <- err
	}
	go begin(0)
	<-hangs
	go begin(1)
	select {
	case err := <-done[1]:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(await.Patience):
		t.Error("a connection waits for the file of another")
	}
	close(release)
	if err := <-done[0]; err != nil {
		t.Error(err)
	}
}

// The same for files that are looked at for each handshake, and seldom read.
func TestAStatThatHangsHoldsItsOwnConnectionsAlone(t *testing.T) {
	hangs, release := make(chan bool, 1), make(chan bool)
	s := quietStore(nil)
	s.due = func(set *files.Set, paths []string, now time.Time) bool {
		if paths[0] == "slow" {
			hangs <- true
			<-release
		}
		return set.Due(paths, now)
	}
	contexts := []*model.UpstreamTLS{{Validation: model.Validation{CA: &model.Data{File: "slow"}}}, {Validation: model.Validation{CA: &model.Data{Inline: []byte("none")}}}}
	done := make(chan bool, 1)
	go func() {
		_, _ = s.material(contexts[0])
		done <- true
	}()
	<-hangs
	other := make(chan bool, 1)
	go func() {
		_, _ = s.material(contexts[1])
		s.Secrets()
		s.Follow(contexts)
		other <- true
	}()
	select {
	case <-other:
	case <-time.After(await.Patience):
		t.Error("a connection waits for the file of another")
	}
	close(release)
	<-done
}

// A source that begins with what another one of the control plane has got, begins with why the last was refused, too.
func TestRefusedSecretsOfTheControlPlaneAreShared(t *testing.T) {
	s := quietStore(nil)
	first, second := model.SecretSource{Name: "own", ADS: true, Patience: time.Second}, model.SecretSource{Name: "own", ADS: true}
	one, two := &model.UpstreamTLS{CertificateSecret: &first}, &model.UpstreamTLS{CertificateSecret: &second}
	s.Follow([]*model.UpstreamTLS{one})
	s.Put(first, &model.Secret{Certificate: &model.Certificate{}}, "1", nil)
	s.Put(first, nil, "2", errors.New("truncated"))
	s.Follow([]*model.UpstreamTLS{one, two})
	got, want := *s.held[second], *s.held[first]
	if want.Cause == nil || want.FaultAt.IsZero() || want.Fault == "" {
		t.Fatalf("not refused: %+v", want)
	}
	// What a source has of its own.
	got.Source, got.since, got.file, got.Taken, got.Refused = want.Source, want.since, want.file, want.Taken, want.Refused
	if got != want {
		t.Errorf("the second source begins with %+v, want %+v", got, want)
	}
}
