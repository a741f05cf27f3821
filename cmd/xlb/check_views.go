// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/plural"
	"github.com/xlb-project/xlb/internal/views"
)

// viewsReport is the outcome of reading a file of views, and the bootstraps that it names.
type viewsReport struct {
	File string `json:"file"`
	// Valid: the file is, and so is the bootstrap of each view.
	Valid bool `json:"valid"`
	// Problems of the file itself, one line each. There are no Views then.
	Problems []string      `json:"problems"`
	Views    []*viewReport `json:"views"`
}

// viewReport is the outcome of reading the bootstrap of one view.
type viewReport struct {
	Name string `json:"name"`
	configReport
}

func checkViews(file string, change config.Option) *viewsReport {
	r := &viewsReport{File: file, Problems: []string{}, Views: []*viewReport{}}
	read, err := views.Read(file)
	if err != nil {
		r.Problems = linesOf(err)
		return r
	}
	r.Valid = true
	for i := range read.Views {
		v := read.Views[i].Checkable()
		one := &viewReport{read.Views[i].Name, *checkConfig(v.Config, change, config.AsNode(v.Node), config.ForView(v.View))}
		r.Views = append(r.Views, one)
		r.Valid = r.Valid && one.Valid
	}
	return r
}

// takeViews adds what was found out about views. The verdict is about them, too.
func (r *checkReport) takeViews(v *viewsReport) {
	r.Views = v
	r.judge(v.Valid)
}

// errs are the problems of the file, and those of each view by its name.
func (r *viewsReport) errs() []error {
	var errs []error
	for _, problem := range r.Problems {
		errs = append(errs, errors.New(problem))
	}
	for _, v := range r.Views {
		for _, problem := range v.Problems {
			errs = append(errs, fmt.Errorf("view %s: %s", v.Name, problem))
		}
	}
	return errs
}

// rows are the file, and each view, as rows of a table.
func (r *viewsReport) rows() [][]string {
	if len(r.Problems) > 0 {
		return [][]string{refusedRow("views", r.File, r.Problems)}
	}
	rows := [][]string{{"views", string(check.OK), fmt.Sprintf("%s: %s", r.File, plural.Of(len(r.Views), "view"))}}
	for _, v := range r.Views {
		rows = append(rows, v.row("view "+v.Name))
	}
	return rows
}
