package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/cli/progress"
	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
)

const (
	maxPart     = 256 << 10 // bytes of one part of an import
	maxWeight   = 200       // persons of one part
	plainWeight = 10        // of a person whose password must be hashed first
	maxErrors   = 1000      // that --json tells
)

// importCount is the result of an import.
type importCount struct {
	Created int           `json:"created"`
	Updated int           `json:"updated"`
	Exists  int           `json:"exists"`
	Failed  int           `json:"failed"`
	Skipped int           `json:"skipped,omitempty"` // entries of the file that are not persons
	Errors  []importError `json:"errors,omitempty"`  // at most 1000; all are on standard error
	Notes   []importNote  `json:"notes,omitempty"`   // what of persons does not come, each text once
}

// importNote is a part of some persons that is not imported.
type importNote struct {
	Text    string `json:"text"`
	Persons int    `json:"persons"`
	Line    int    `json:"line"` // of the first of them
}

func (n importNote) text() string {
	return fmt.Sprintf("%s, the first on line %d: %s", count(n.Persons, "person"), n.Line, n.Text)
}

type importError struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// upload sends a file in parts.
type upload struct {
	cmd       *cobra.Command
	in        importer.Reader
	partition string
	from      int
	file      *progress.Reader // nil: how much of it was read is unknown
	progress  *progress.Teller

	request struct {
		Persons []json.RawMessage `json:"persons"`
		Update  bool              `json:"update,omitempty"`
		Check   bool              `json:"check,omitempty"`
	}
	lines  []int // of request.Persons
	size   int   // bytes of them
	weight int

	newIDs bool // do not keep those of the other system

	result importCount
	notes  map[string]int // indexes of result.Notes
	began  time.Time
}

func (im *upload) run() error {
	im.progress = newProgress(im.cmd.ErrOrStderr())
	defer im.progress.End()
	for {
		p, line, err := im.in.Next()
		wrong := new(importer.LineError)
		switch {
		case errors.Is(err, io.EOF):
			if err := im.send(); err != nil {
				return err
			}
			return im.finish()
		case errors.As(err, &wrong):
			if line >= im.from {
				im.fails(wrong.Line, wrong.Problem)
			}
			continue
		case err != nil: // where the next person begins is unknown
			return errors.Join(err, im.send())
		case line < im.from:
			continue
		}
		if p.Partition == "" {
			p.Partition = im.partition
		}
		if im.newIDs {
			p.ID = ""
		}
		for _, text := range p.Notes {
			im.note(line, p.Username, text)
		}
		raw, err := json.Marshal(p)
		if err != nil || len(raw) > maxPart {
			im.fails(line, "the person has more than can be stored")
			continue
		}
		weight := 1
		if p.Password != "" {
			weight = plainWeight
		}
		if im.size+len(raw) > maxPart || im.weight+weight > maxWeight {
			if err := im.send(); err != nil {
				return err
			}
		}
		im.request.Persons, im.lines = append(im.request.Persons, raw), append(im.lines, line)
		im.size += len(raw)
		im.weight += weight
	}
}

// send imports what has been gathered.
func (im *upload) send() error {
	if len(im.lines) == 0 {
		return nil
	}
	var answer adminapi.ImportAnswer
	if err := call(im.cmd, "/persons/import", im.request, &answer); err != nil {
		return fmt.Errorf("stopped at line %d: %w; the people imported so far stay: repeat the command, or go on with --from %d",
			im.lines[0], err, im.lines[0])
	}
	if len(answer.Results) != len(im.lines) {
		return fmt.Errorf("stopped at line %d: the server's answer does not fit", im.lines[0])
	}
	for i, r := range answer.Results {
		switch r.Status {
		case ldapmigration.Created:
			im.result.Created++
		case ldapmigration.Updated:
			im.result.Updated++
		case ldapmigration.Exists:
			im.result.Exists++
		default:
			im.fails(im.lines[i], r.Error)
		}
		for _, text := range r.Notes {
			im.note(im.lines[i], "", text)
		}
	}
	im.request.Persons, im.lines, im.size, im.weight = im.request.Persons[:0], im.lines[:0], 0, 0
	part := -1.0
	if im.file != nil {
		part = im.file.Part()
	}
	im.progress.Tell(part, func() string {
		return fmt.Sprintf("%s, %.0f a second", im.summary(), float64(im.total())/time.Since(im.began).Seconds())
	})
	return nil
}

// note keeps what of a person does not come. A dry run prints it too.
func (im *upload) note(line int, username, text string) {
	if im.request.Check {
		who := ""
		if username != "" {
			who = strconv.Quote(username) + ": "
		}
		im.progress.Line(fmt.Sprintf("line %d: %s%s", line, who, text))
	}
	i, known := im.notes[text]
	if !known {
		if len(im.result.Notes) == maxErrors {
			return
		}
		if im.notes == nil {
			im.notes = map[string]int{}
		}
		i = len(im.result.Notes)
		im.notes[text] = i
		im.result.Notes = append(im.result.Notes, importNote{Text: text, Line: line})
	}
	im.result.Notes[i].Persons++
}

// fails reports a person who was not imported.
func (im *upload) fails(line int, problem string) {
	im.result.Failed++
	im.progress.Line(fmt.Sprintf("line %d: %s", line, problem))
	if len(im.result.Errors) < maxErrors {
		im.result.Errors = append(im.result.Errors, importError{line, problem})
	}
}

func (im *upload) total() int {
	return im.result.Created + im.result.Updated + im.result.Exists + im.result.Failed
}

func (im *upload) summary() string {
	r := &im.result
	form := "%s: %d created, %d updated, %d exist, %d failed"
	if im.request.Check {
		form = "%s: %d would be created, %d updated, %d exist, %d would fail"
	}
	s := fmt.Sprintf(form, count(im.total(), "person"), r.Created, r.Updated, r.Exists, r.Failed)
	switch {
	case r.Skipped == 1:
		s += "; 1 entry is not a person"
	case r.Skipped > 1:
		s += fmt.Sprintf("; %d entries are not people", r.Skipped)
	}
	return s
}

func (im *upload) finish() error {
	if s, ok := im.in.(importer.Skipper); ok {
		im.result.Skipped = s.Skipped()
	}
	im.progress.End()
	return nil
}

// counting returns a reader of the file, which knows how much of it was read.
func (im *upload) counting(f *os.File) io.Reader {
	im.file = progress.NewReader(f, sizeOf(f), nil)
	return im.file
}
