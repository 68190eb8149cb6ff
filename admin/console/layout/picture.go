package layout

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// MaxPictureUpload bounds the bytes that are read of a picture that is too large. A browser whose file is not read to
// the end shows an error of the connection in place of the page.
const MaxPictureUpload = 32 << 20

// LinksFact leads to acts that have no button, as far as the person of the visit can do something with them.
func LinksFact(v *Visit, label string, names ...string) []web.ConsoleFact {
	f := web.ConsoleFact{Label: label}
	for _, name := range names {
		if v.offers(v.Screen.Act(name)) {
			f.Cells = append(f.Cells, web.Cell{Text: web.Say("console.act." + name), URL: v.Path() + "/" + name})
		}
	}
	if len(f.Cells) == 0 {
		return nil
	}
	return []web.ConsoleFact{f}
}

// AskPicture asks for the file of a logo or icon.
func AskPicture(*Visit) (Question, error) {
	return Question{Fields: []web.Field{{
		Name: "logo", Type: "file", Required: true,
		Hint: "console.field.logo.hint", HintFill: []any{"max", web.MaxPicture >> 10},
	}}}, nil
}

// TakePicture gives the file of the form to set. Its name and its type in the form do not matter: the content says what
// it is.
func TakePicture(set func(v *Visit, raw []byte) error) func(*Visit, url.Values) (Result, error) {
	return func(v *Visit, _ url.Values) (Result, error) {
		raw, err := readPicture(v.Upload)
		if err == nil {
			err = set(v, raw)
		}
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			err = web.ErrPictureSize
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*web.Forbidden)):
			err = web.ErrNoPicture
		}
		if p := CodedProblem("logo", err); p != nil {
			return Result{}, p
		}
		return Result{}, err
	}
}

// readPicture returns the file of a form, and of a larger one as much as shows that. io.EOF: no file
func readPicture(u *web.Upload) ([]byte, error) {
	_, file, err := u.Next()
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, web.MaxPicture+1))
	_, rest := io.Copy(io.Discard, file)
	return raw, cmp.Or(err, rest)
}
