package jsonapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// MaxDepth is the maximum nesting of objects and arrays in a body.
const MaxDepth = 64

// Decode reads the JSON body of a request into what into points to, as DecodeBytes does. Its media type must be
// application/json (otherwise 415), and it must have at most so many bytes (otherwise 413).
func Decode(w http.ResponseWriter, r *http.Request, most int64, into any) error {
	raw, err := Body(w, r, most)
	if err != nil {
		return err
	}
	return DecodeBytes(raw, into)
}

// Body reads the body of a request that is declared as application/json, 415 and 413 as with Decode.
func Body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	types := r.Header.Values("Content-Type")
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || len(types) != 1 || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "the body must be application/json"}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "the body must not be compressed"}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body must have at most %d bytes", most)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Status: http.StatusRequestTimeout, Message: "the body took too long"}
	}
	if err != nil {
		return nil, (&Error{Status: http.StatusBadRequest, Message: "the body could not be read"}).With(err)
	}
	return raw, nil
}

// DecodeBytes reads JSON into what into points to, strictly (strictjson.Decode), and refuses with 400 and the path of
// the member.
func DecodeBytes(raw []byte, into any) error { return decode(raw, into, strictjson.Decode) }

// MergeBytes is DecodeBytes for a part of what into points to: what is absent stays (strictjson.Merge).
func MergeBytes(raw []byte, into any) error { return decode(raw, into, strictjson.Merge) }

// bodyProblem is the problem of a body that is no JSON.
func bodyProblem(err error) Problem {
	p := ProblemAt("", err)
	p.Problem = "the body " + p.Problem
	return p
}

func decode(raw []byte, into any, read func([]byte, any) error) error {
	if err := strictjson.Check(raw, MaxDepth); err != nil {
		return Invalid(bodyProblem(err))
	}
	err := read(raw, into)
	if e := new(strictjson.Error); errors.As(err, &e) {
		problems := make([]Problem, len(e.Problems))
		for i, p := range e.Problems {
			problems[i] = ProblemAt(p.Path, p.Wrong)
		}
		return Invalid(problems...)
	}
	return err
}
