// Package archtest holds tests of this tree: who imports whom, where clocks, routes and records stand, what documents
// may say. What they refuse they refuse with the reason, so that the rule can be weighed against the case.
package archtest
