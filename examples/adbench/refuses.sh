#!/bin/sh
# Files and arguments that adbench has to refuse: with status 2 and a message that says what it expected and where.
# usage: refuses.sh ADBENCH DATA SCRATCH
set -u
adbench=$1 data=$2 scratch=$3
failures=0
rm -rf "$scratch"
mkdir -p "$scratch"

# refuses MESSAGE ARGUMENT...: the message is a part of what is printed.
refuses() {
  message=$1
  shift
  "$adbench" "$@" >"$scratch/out" 2>&1
  status=$?
  if [ $status != 2 ] || ! grep -qF -e "$message" "$scratch/out"; then
    printf 'adbench %s\n  expected status 2 and: %s\n  got status %s and: %s\n' "$*" "$message" "$status" "$(head -c 500 "$scratch/out")"
    failures=$((failures + 1))
  fi
}

# refuses_file MESSAGE PROBLEM TEXT [ARGUMENT...]: a file that holds TEXT (a printf format), with a model beside it.
refuses_file() {
  message=$1 problem=$2
  # shellcheck disable=SC2059
  printf "$3" >"$scratch/file.txt"
  shift 3
  refuses "$message" "$problem" "$scratch/file.txt" "$@"
}

cp -r "$data/model" "$scratch/model"
chmod -R u+w "$scratch/model"
angles='0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0'

refuses 'expected a problem and a FILE'
refuses 'expected a problem and a FILE' gmm a b
refuses 'expected gmm, ba, hand, hand_complicated or lstm, got glm' glm "$data/gmm_test.txt"
refuses 'unknown option --repeats' gmm "$data/gmm_test.txt" --repeats 3
refuses '--repeat: expected an integer from 1 to 1000000, got 0' gmm "$data/gmm_test.txt" --repeat 0
refuses 'expected a value after --json' gmm "$data/gmm_test.txt" --json
refuses 'nowhere/out.json: expected a file that can be written' gmm "$data/gmm_test.txt" --json "$scratch/nowhere/out.json"
refuses '--model: expected the problem hand, got ba' ba "$data/ba_test.txt" --model "$scratch"
refuses '--form: expected flat or call, got deep' lstm "$data/lstm_three_layers.txt" --form deep
refuses 'none.txt: expected a file that can be read' ba "$scratch/none.txt"
refuses 'expected values of a problem with d = 2, got dims nowhere' gmm "$data/gmm_test.txt" --reference "$data/../readme/in.json"
refuses 'expected values of a problem with k = 3' gmm "$data/gmm_test.txt" --reference "$data/gmm_1k_d2_K5.json"

refuses_file 'file.txt:1: expected the number of dimensions, an integer from 1 to 10000, got the end of the file' gmm ''
refuses_file 'file.txt:1: expected the number of components, an integer from 1 to 1000000, got -3' gmm '2 -3 1\n'
refuses_file 'file.txt:1: expected the number of points, an integer from 1 to 100000000, got 1.5' gmm '2 3 1.5\n'
refuses_file 'file.txt:2: expected number 1 of 3 for the log weights, got x' gmm '1 3 1\nx 2 3 4 5 6 7\n'
refuses_file 'expected 5050 numbers for the inverse covariance factors, got a file that is too short for them' gmm "100 1 1\n1\n$(seq -s ' ' 100)\n"
refuses_file 'numbers for the log weights, got a file that is too short for them' gmm '2 900000 1\n1 2\n'
refuses_file 'file.txt:6: expected number 1 of 1 for m of the prior, got the end of the file' gmm '1 1 1\n1\n1\n1\n1\n1 '
refuses_file 'file.txt:6: expected the end of the file after m of the prior, got 7' gmm '1 1 1\n1\n1\n1\n1\n1 0 7\n'
refuses_file 'file.txt:6: expected number 1 of 1 for gamma of the prior, got nan' gmm '1 1 1\n1\n1\n1\n1\nnan 0\n'
refuses_file 'file.txt:1: expected the number of cameras, an integer from 1 to 20000000, got 99999999999999999999' ba '99999999999999999999 1 1\n'
refuses_file 'file.txt:3: expected number 1 of 3 for the point, got 1e999' ba '1 1 1\n1 2 3 4 5 6 7 8 9 10 11\n1e999 2 3\n1\n1 2\n'
refuses_file 'file.txt:5: expected number 2 of 2 for where the point was seen, got 2,0' ba '1 1 1\n1 2 3 4 5 6 7 8 9 10 11\n1 2 3\n1\n1 2,0\n'
refuses_file 'file.txt:1: expected the number of angles, an integer from 26 to 26, got 28' hand '1 28\n'
refuses_file 'file.txt:2: expected the vertex of point 1 of 2, an integer from 0 to 543, got 544' hand "2 26\n544 1 2 3\n1 1 2 3\n$angles\n"
refuses_file 'file.txt:2: expected the triangle of point 1 of 1, an integer from 0 to 1083, got -1' hand_complicated "1 26\n-1 1 2 3\n0 0\n$angles\n"
refuses_file 'file.txt:4: expected the end of the file after the angles, got 0' hand "1 26\n5 1 2 3\n0 0\n$angles\n"
refuses_file 'got a file that is too short' hand_complicated "1 26\n5 1 2 3\n"
refuses_file 'file.txt:2: expected a coordinate of point 1 of 1, a number, got z' hand "1 26\n5 1 2 z\n$angles\n"
refuses 'expected a file that can be read' hand "$data/hand_test.txt" --model "$scratch/nowhere"
refuses_file 'file.txt:1: expected the number of characters, an integer from 2 to 1000000, got 1' lstm '1 1 1\n'
refuses_file 'numbers for the characters, got a file that is too short for them' lstm '1 1000000 1\n1 1 1 1 1 1 1 1\n1 1 1\n1 1\n1\n'

# Of the model: one line is changed by sed.
refuses_model() {
  message=$1 file=$2 change=$3
  cp "$data/model/"* "$scratch/model/"
  sed "$change" "$data/model/$file" >"$scratch/model/$file"
  refuses "$message" hand "$data/hand_test.txt" --model "$scratch/model"
}
refuses_model 'bones.txt:2: expected the parent of thumb1, an integer from -1 to 0, got 1' bones.txt '2s/:0:/:1:/'
refuses_model 'bones.txt:3: expected an element of the inverse matrix of thumb2, a number, got the end of the line' bones.txt '3s/:[^:]*$//'
refuses_model 'bones.txt:4: expected the end of the line after the inverse matrix of thumb3, got 1' bones.txt '4s/$/:1/'
refuses_model 'bones.txt: expected at least 21 bones, got 20' bones.txt '21,$d'
refuses_model 'vertices.txt:5: expected the x of a vertex, a number, got p' vertices.txt '5s/^[^:]*/p/'
refuses_model 'vertices.txt:7: expected a weight, a number, got the end of the line' vertices.txt '7s/:[^:]*$//'
refuses_model 'vertices.txt: expected vertices, got none' vertices.txt 'd'
refuses_model 'triangles.txt:9: expected the vertex of a triangle, an integer from 0 to 543, got 544' triangles.txt '9s/[^:]*$/544/'

[ $failures = 0 ] || echo "$failures not refused as they have to be"
exit $((failures != 0))
