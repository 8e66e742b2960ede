// Package fit finds the latency model of an engine from a log of the requests
// that it served, and says how well the simulated engine then predicts requests
// that the fit has not seen. It knows arrivals, token counts and the times of the
// first and last tokens; what went on inside the engine it gets by simulating the
// same arrivals and comparing.
package fit
