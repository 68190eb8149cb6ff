package console

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// maxUpload bounds the bytes that are read of a picture that is too large. A browser whose file is not read to the end
// shows an error of the connection in place of the page.
const maxUpload = 32 << 20

// logoOf returns the picture of a client. nil: none
func (c *Console) logoOf(a *clientstore.Info) *web.Image {
	if a.Logo != nil {
		return a.Logo.Image()
	}
	return c.Pages.DeclaredLogo(a.ID)
}

// logoFact leads to what the person of the visit can do about the logo.
func logoFact(v *layout.Visit) (out []web.ConsoleFact) {
	f := web.ConsoleFact{Label: "console.field.client_logo"}
	for _, name := range []string{"set-logo", "remove-logo"} {
		if act := v.Screen.Act(name); v.May(act) == nil && act.When(v) {
			f.Cells = append(f.Cells, web.Cell{Text: web.Say("console.act." + name), URL: v.Path() + "/" + name})
		}
	}
	if len(f.Cells) > 0 {
		out = append(out, f)
	}
	return out
}

func askLogo(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{{
		Name: "logo", Type: "file", Required: true,
		Hint: "console.field.logo.hint", HintFill: []any{"max", web.MaxPicture >> 10},
	}}}, nil
}

// setLogo gives the client the picture of the form. Its name and its type in the form do not matter: the content says
// what it is.
func (c *Console) setLogo(v *layout.Visit, _ url.Values) (layout.Result, error) {
	raw, err := readPicture(v.Upload)
	if err == nil {
		err = c.Clients.SetLogo(v.Context(), shownClient(v).ID, raw, v.Actor())
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		err = web.ErrPictureSize
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*web.Forbidden)):
		err = web.ErrNoPicture
	}
	if p := layout.CodedProblem("logo", err); p != nil {
		return layout.Result{}, p
	}
	return layout.Result{}, err
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

func (c *Console) removeLogo(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Clients.RemoveLogo(v.Context(), shownClient(v).ID, v.Actor())
}
