// Package measure has the commands that measure what runs: profile, calibrate, validate and
// replay. A command parses its flags, asks the packages that measure, fit and compare, and
// writes what they return. Calibrate runs the other commands, and those that train and
// evaluate, one after the other as they would be typed.
package measure
