// Package csvfile writes CSV files that people open in spreadsheets. A cell that a spreadsheet would compute is written
// as text.
package csvfile

import (
	"encoding/csv"
	"io"
	"strings"
)

// Type is the media type of a file. (RFC 7111 5.1)
const Type = "text/csv; charset=utf-8; header=present"

// Writer writes rows. The first error ends it: later rows are dropped.
type Writer struct {
	out *csv.Writer
	row []string
}

// New returns a writer that has written the names of the columns.
func New(w io.Writer, columns ...string) *Writer {
	s := &Writer{out: csv.NewWriter(w)}
	s.out.UseCRLF = true // RFC 4180 2
	s.Row(columns...)
	return s
}

// Row writes a row.
func (s *Writer) Row(cells ...string) {
	s.row = s.row[:0]
	for _, c := range cells {
		s.row = append(s.row, cell(c))
	}
	_ = s.out.Write(s.row) // Flush returns its error
}

// Flush hands over what waits, and returns the first error so far.
func (s *Writer) Flush() error {
	s.out.Flush()
	return s.out.Error()
}

// cell returns text that no spreadsheet computes: in front of a sign that begins a formula stands an apostrophe, after
// the spaces that some programs skip too. A line break within a cell becomes a space, since programs begin a cell again
// behind one.
func cell(text string) string {
	text = breaks.Replace(text)
	if strings.HasPrefix(text, "\t") || startsFormula(strings.TrimLeft(text, " \t\u00a0\u3000\ufeff")) {
		return "'" + text
	}
	return text
}

var breaks = strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ", "\x00", " ")

// startsFormula knows the signs of spreadsheets, and their full-width forms, which some take for the same.
func startsFormula(text string) bool {
	for _, c := range text {
		return strings.ContainsRune("=+-@|%＝＋－＠", c)
	}
	return false
}
