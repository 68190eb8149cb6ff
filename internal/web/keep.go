package web

// copyButton is the data of the template "copy".
type copyButton struct{ ID, Text, Copied string }

// Copy returns a button that copies the code elements of the element id, without the spaces in them. It needs scripts:
// without them it is hidden.
//
//	{{template "copy" ($.Copy "secret")}}
func (f *frame) Copy(id string) copyButton {
	f.Needs("keep")
	return copyButton{id, f.T("keep.copy"), f.T("keep.copied")}
}
