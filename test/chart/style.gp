# What the charts have in common: test/chart/draw, test/bench/draw and test/bench/long
# put this before their own.  ARG1: the data, ARG2: the chart, ARG3: its title.
set terminal svg size 900,420 font "sans-serif,13" background "white"
set output ARG2
set label ARG3 at graph 0, 1.08 left noenhanced font "sans-serif,16"
set tmargin 4
set datafile separator ","
set datafile missing ""
set key outside right top reverse Left samplen 2 noenhanced
set border 3 lc rgb "#606060"
set tics nomirror out
set grid y lc rgb "#d8d8d8" lt 1
set yrange [0:*]
set ylabel "MB"
set style fill solid 1 noborder
