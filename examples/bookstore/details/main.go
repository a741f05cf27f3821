// SPDX-License-Identifier: Apache-2.0

// Command details knows what is printed on a book: its title, its author and so on.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

// book is what a page shows of it.
type book struct {
	ID       int    `json:"id"`
	Title    string `json:"title"`
	Author   string `json:"author"`
	Year     int    `json:"year"`
	Pages    int    `json:"pages"`
	Language string `json:"language"`
}

// shelf repeats itself: every number is a book.
var shelf = []book{
	{Title: "Moby-Dick", Author: "Herman Melville", Year: 1851, Pages: 635, Language: "English"},
	{Title: "Middlemarch", Author: "George Eliot", Year: 1871, Pages: 880, Language: "English"},
	{Title: "Effi Briest", Author: "Theodor Fontane", Year: 1895, Pages: 520, Language: "German"},
	{Title: "Madame Bovary", Author: "Gustave Flaubert", Year: 1857, Pages: 490, Language: "French"},
}

func details(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 0 {
		http.Error(w, "ask for /details/NUMBER", http.StatusNotFound)
		return
	}
	found := shelf[id%len(shelf)]
	found.ID = id
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(found); err != nil {
		log.Print(err)
	}
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /details/{id}", details)
	server := &http.Server{Addr: os.Getenv("LISTEN"), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
