package web

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"unicode/utf8"
)

// maxParts bounds the fields and files of a form with files.
const maxParts = 32

// Upload is a form with files, of which the fields have been read and the files have not. The fields stand in front of
// the files.
type Upload struct {
	in    *multipart.Reader
	first *multipart.Part
	most  int
}

// CheckUpload is CheckPost for a form with files of so many bytes together. Nothing of a file is read before the form
// is known to be ours.
func (p *Renderer) CheckUpload(r *http.Request, binding, form string, most int64) (*Upload, error) {
	if r.Method != http.MethodPost {
		return nil, &Forbidden{http.StatusMethodNotAllowed, "not a POST"}
	}
	if err := p.checkOrigin(r); err != nil {
		return nil, err
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" || r.Body == nil || r.PostForm != nil {
		return nil, &Forbidden{http.StatusForbidden, "the form has another content type"}
	}
	u := &Upload{in: multipart.NewReader(http.MaxBytesReader(nil, r.Body, most+maxForm), params["boundary"]), most: maxParts}
	values, err := u.fields()
	if err != nil {
		return nil, err
	}
	if !p.IsCSRF(values.Get("csrf"), binding, form) {
		return nil, &Forbidden{http.StatusForbidden, "the form is not of this browser and page"}
	}
	r.PostForm, r.Form = values, values
	return u, nil
}

// fields reads the fields up to the first file.
func (u *Upload) fields() (url.Values, error) {
	values, size := url.Values{}, 0
	for {
		part, err := u.part()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		if isFile(part) {
			u.first = part
			return values, nil
		}
		raw, err := io.ReadAll(io.LimitReader(part, int64(maxForm-size)+1))
		if err != nil {
			return nil, &Forbidden{http.StatusBadRequest, "the form did not arrive whole"}
		}
		name, value := part.FormName(), string(raw)
		switch size += len(name) + len(raw); {
		case size > maxForm:
			return nil, &Forbidden{http.StatusRequestEntityTooLarge, "the form is too large"}
		case values.Has(name), !utf8.ValidString(name), !utf8.ValidString(value):
			return nil, &Forbidden{http.StatusBadRequest, "the form repeats a field or is not UTF-8"}
		}
		values.Set(name, value)
	}
}

// isFile tells files from fields: only they have the name of a file, which can be empty.
func isFile(p *multipart.Part) bool {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	_, has := params["filename"]
	return err != nil || has
}

// part returns the next field or file, or io.EOF.
func (u *Upload) part() (*multipart.Part, error) {
	if u.most--; u.most < 0 {
		return nil, &Forbidden{http.StatusBadRequest, "the form has too many fields"}
	}
	part, err := u.in.NextRawPart()
	switch {
	case errors.Is(err, io.EOF), errors.As(err, new(*http.MaxBytesError)):
		return nil, err
	case err != nil:
		return nil, &Forbidden{http.StatusBadRequest, "the form did not arrive whole"}
	}
	return part, nil
}

// Next returns the next file with the name of its field, or io.EOF after the last. Reading it returns an
// *http.MaxBytesError if there is more than the form can have.
func (u *Upload) Next() (field string, in io.Reader, err error) {
	part := u.first
	if u.first = nil; part == nil {
		if part, err = u.part(); err != nil {
			return "", nil, err
		}
	}
	if !isFile(part) {
		return "", nil, &Forbidden{http.StatusBadRequest, "a field stands behind a file"}
	}
	return part.FormName(), part, nil
}
