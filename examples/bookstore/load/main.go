// SPDX-License-Identifier: Apache-2.0

// Command load reads pages of the bookstore, as many users at once, and looks whether each is complete.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/xlb-project/xlb/examples/app"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o, err := app.LoadFlags("load", args)
	if err != nil {
		return err
	}
	users := make([]*app.User, o.Users)
	for i := range users {
		users[i] = o.NewUser(i)
		defer users[i].Close()
	}
	var asked atomic.Int64
	var failures app.Failures
	var versions [3]atomic.Int64
	report := o.Run(func(i int) error {
		book := asked.Add(1)
		answer, err := users[i].Do(fmt.Sprintf("/page/%d", book), "", nil)
		if err != nil {
			return err
		}
		if answer.Code != http.StatusOK {
			return fmt.Errorf("book %d: %s", book, answer.Status)
		}
		version, err := complete(answer.Page, book)
		if err == nil {
			versions[version-1].Add(1)
		}
		return err
	}, &failures)
	if err := o.Write(report, &failures); err != nil || o.JSON {
		return err
	}
	_, err = fmt.Printf("reviews v1: %d, v2: %d, v3: %d\n", versions[0].Load(), versions[1].Load(), versions[2].Load())
	return err
}

// complete says what a page lacks, or which version of the reviews is on it.
func complete(page string, book int64) (version int, err error) {
	want := map[string]int{
		fmt.Sprintf("<title>Book %d</title>", book): 1,
		`<table class="details">`:                   1,
		"<article>":                                 2,
		"</html>\n":                                 1,
		"not available":                             0,
	}
	for text, n := range want {
		if got := strings.Count(page, text); got != n {
			return 0, fmt.Errorf("book %d: %q is there %d times, want %d:\n%s", book, text, got, n, page)
		}
	}
	stars := strings.Count(page, `class="stars"`)
	for v, n := range []int{0, 2, 2} {
		if strings.Contains(page, fmt.Sprintf("<footer>reviews v%d</footer>", v+1)) && stars == n {
			return v + 1, nil
		}
	}
	return 0, fmt.Errorf("book %d: no version of the reviews, or not their stars:\n%s", book, page)
}
