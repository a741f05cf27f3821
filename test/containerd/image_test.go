// SPDX-License-Identifier: Apache-2.0

package containerd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// Names of the two images. Both hold the same program.
const (
	pauseImage = "localhost/pause:1"
	podImage   = "localhost/pod:1"
)

// program is its path in an image.
const program = "pod"

type object = map[string]any

// compile makes the program that runs in pods: a static one, since nothing else is in an image.
func compile(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, program)
	output, err := exec.Command(harness.Command(t, "gcc"), "-Os", "-Wall", "-Werror", "-static", "-o", path, filepath.Join("testdata", "pod.c")).CombinedOutput()
	if err != nil {
		t.Fatalf("compile the program of pods: %v\n%s", err, output)
	}
	return path
}

// archive is an image as a file, in the format of the Open Container Initiative (image-layout.md).
type archive struct {
	bytes.Buffer
	w *tar.Writer
}

// writeImage makes an archive of an image that has one program, which is run with these arguments unless a container has its own.
func writeImage(t *testing.T, dir, name, binary string, arguments ...string) (path string) {
	t.Helper()
	a := &archive{}
	a.w = tar.NewWriter(a)
	layer := layerOf(t, binary)
	manifest := a.blob(t, "manifest.v1+json", object{
		"schemaVersion": 2, "mediaType": mediaType("manifest.v1+json"),
		"config": a.blob(t, "config.v1+json", object{
			"architecture": runtime.GOARCH, "os": "linux", "config": object{"Entrypoint": append([]string{"/" + program}, arguments...)},
			"rootfs": object{"type": "layers", "diff_ids": []string{digest(layer)}},
		}),
		"layers": []any{a.put(t, "layer.v1.tar", layer)},
	})
	_, tag, _ := strings.Cut(name, ":")
	manifest["annotations"] = object{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	a.file(t, "index.json", encode(t, object{"schemaVersion": 2, "mediaType": mediaType("index.v1+json"), "manifests": []any{manifest}}))
	a.file(t, "oci-layout", encode(t, object{"imageLayoutVersion": "1.0.0"}))
	path = filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(name)+".tar")
	if err := a.w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, a.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// layerOf is a file system that has one file.
func layerOf(t *testing.T, binary string) []byte {
	t.Helper()
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	layer := &archive{}
	layer.w = tar.NewWriter(layer)
	layer.file(t, program, content)
	if err := layer.w.Close(); err != nil {
		t.Fatal(err)
	}
	return layer.Bytes()
}

func mediaType(of string) string { return "application/vnd.oci.image." + of }

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// blob adds a document, and returns what refers to it.
func (a *archive) blob(t *testing.T, kind string, document object) object {
	t.Helper()
	return a.put(t, kind, encode(t, document))
}

func (a *archive) put(t *testing.T, kind string, content []byte) object {
	t.Helper()
	of := digest(content)
	a.file(t, "blobs/"+strings.ReplaceAll(of, ":", "/"), content)
	return object{"mediaType": mediaType(kind), "digest": of, "size": len(content)}
}

func (a *archive) file(t *testing.T, name string, content []byte) {
	t.Helper()
	err := a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o755})
	if err == nil {
		_, err = a.w.Write(content)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("write an image: %w", err))
	}
}
