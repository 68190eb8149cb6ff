package layout

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// undoTime limits how long an act can be undone from the message that says it was done.
	undoTime = time.Minute
	// undoField is the field of a form that undoes the last act of the session.
	undoField = "undo"
)

// Undo is the act of the same screen that undoes another, with the fields of its form.
type Undo struct {
	Act    string
	Values url.Values
}

// Switched is the result of a switch that was in one state and is in another. The act on or off undoes it; nothing does
// if nothing has changed.
func Switched(was, is bool, on, off string) Result {
	switch {
	case was == is:
		return Result{}
	case is:
		return Result{Undo: &Undo{Act: off}}
	}
	return Result{Undo: &Undo{Act: on}}
}

// keepUndo stores what undoes the act of the visit, in place of what would have undone the one before. nil: nothing
func (f *Frame) keepUndo(v *Visit, u *Undo) error {
	return f.Store.Update(v.Context(), func(tx storage.Tx) error {
		if u == nil {
			_, err := undos.Get(tx, v.SignIn.ID)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			return undos.Delete(tx, v.SignIn.ID)
		}
		rec := undoRecord{Path: v.Path(), Done: v.act.Name, Act: u.Act, Values: u.Values, At: v.Now}
		return undos.Put(tx, v.SignIn.ID, rec, v.Now.Add(undoTime))
	})
}

// lastUndo returns what undoes the last act of the session, if it was on this screen less than a minute ago.
func (f *Frame) lastUndo(v *Visit) (rec undoRecord, ok bool, err error) {
	err = f.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		rec, err = undos.Get(tx, v.SignIn.ID)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return rec, false, nil
	}
	return rec, err == nil && rec.Path == v.Path() && v.Now.Before(rec.At.Add(undoTime)), err
}

// undoForm returns the form that undoes an act that was just done, or nil.
func (f *Frame) undoForm(v *Visit, done string) (*web.ConsoleForm, error) {
	rec, ok, err := f.lastUndo(v)
	if err != nil || !ok || rec.Done != done {
		return nil, err
	}
	a := v.Screen.Act(rec.Act)
	if a == nil || !v.offers(a) {
		return nil, nil
	}
	form := &web.ConsoleForm{Action: v.Path() + "/" + a.Name, Hidden: []web.Hidden{{Name: undoField, Value: done}}}
	for name, values := range rec.Values {
		for _, value := range values {
			form.Hidden = append(form.Hidden, web.Hidden{Name: name, Value: value})
		}
	}
	slices.SortFunc(form.Hidden[1:], func(a, b web.Hidden) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value)) })
	form.CSRF, err = f.Identity.Front.FormToken(v.Request, f.form(v, a))
	return form, err
}

// checkUndo refuses a form that undoes an act too late, or after another act.
func (f *Frame) checkUndo(v *Visit, in url.Values) error {
	if !in.Has(undoField) {
		return nil
	}
	rec, ok, err := f.lastUndo(v)
	if err == nil && (!ok || rec.Act != v.act.Name || rec.Done != in.Get(undoField)) {
		err = &Problem{Key: "console.problem.undo"}
	}
	return err
}
