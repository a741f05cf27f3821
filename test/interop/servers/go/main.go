// SPDX-License-Identifier: Apache-2.0

// Command go is the server of the interop matrix that uses Go's net/http.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

var directory, store string

func main() {
	address := net.JoinHostPort(os.Args[1], os.Args[2])
	directory, store = os.Args[3], os.Args[4]
	mux := http.NewServeMux()
	mux.HandleFunc("GET /small/{name}", serveFile)
	mux.HandleFunc("GET /large", serveFile)
	mux.HandleFunc("GET /chunked", serveChunked)
	mux.HandleFunc("PUT /upload/{name}", keep)
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, mux))
	os.Exit(1)
}

func serveFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", fmt.Sprintf("%q", filepath.Base(r.URL.Path)))
	http.ServeFile(w, r, filepath.Join(directory, r.URL.Path))
}

// serveChunked gives no length, and so net/http chunks.
func serveChunked(w http.ResponseWriter, _ *http.Request) {
	file, err := os.Open(filepath.Join(directory, "chunked"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()
	w.Header().Set("Trailer", "X-Check")
	// A client that is gone is the client's affair.
	_, _ = io.Copy(w, file)
	w.Header().Set("X-Check", "interop")
}

func keep(w http.ResponseWriter, r *http.Request) {
	path := filepath.Join(store, r.PathValue("name"))
	err := save(path, r.Body)
	if err == nil {
		err = saveTrailer(path, r.Trailer)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func save(path string, body io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, body); err != nil {
		return err
	}
	return file.Close()
}

// saveTrailer is called when the body has been read: before, there is no trailer.
func saveTrailer(path string, trailer http.Header) error {
	value := trailer.Get("X-Check")
	if value == "" {
		return nil
	}
	return os.WriteFile(path+".trailer", []byte(value), 0o644)
}
