// Package archtest tests the structure of this tree: imports, names, the files of routes and records, and the words of
// documents. Each failure gives the reason of its rule, so the rule can be weighed against the case.
package archtest
