// Stores items of one post from an older model: upserts the items, then sets the post's counters to
// the numbers of stored comments and likes. The counters are counted and not incremented, so items
// may come twice and in any order; a comment may come before its post.
// Returns the number of items stored. If the time limit ends the run early, the caller passes the
// remaining items to another run.
function absorb(postId, items) {
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var stored = 0;

  function checkAccepted(accepted) {
    if (!accepted) {
      throw new Error(503, 'absorb exceeded its time limit; nothing was changed');
    }
  }

  function next() {
    if (stored === items.length) return count('comment', 0, null, countLikes);
    var accepted = collection.upsertDocument(self, items[stored], function (err) {
      if (err) throw err;
      stored++;
      next();
    });
    // The items stored so far are kept; the run that stores the last items sets the counters.
    if (!accepted) getContext().getResponse().setBody(stored);
  }

  // Adds the pages of one COUNT query: a page may hold a part of the count.
  function count(type, sum, continuation, then) {
    var query = {
      query: 'SELECT VALUE COUNT(1) FROM c WHERE c.postId = @postId AND c.type = @type',
      parameters: [{ name: '@postId', value: postId }, { name: '@type', value: type }]
    };
    var options = continuation ? { continuation: continuation } : {};
    checkAccepted(collection.queryDocuments(self, query, options, function (err, rows, info) {
      if (err) throw err;
      for (var i = 0; i < rows.length; i++) sum += rows[i];
      if (info && info.continuation) return count(type, sum, info.continuation, then);
      then(sum);
    }));
  }

  function countLikes(comments) {
    count('like', 0, null, function (likes) { setCounters(comments, likes); });
  }

  function setCounters(comments, likes) {
    var postLink = collection.getAltLink() + '/docs/' + postId;
    checkAccepted(collection.readDocument(postLink, function (err, post) {
      if (err && err.number !== 404) throw err;
      if (err || (post.commentCount === comments && post.likeCount === likes)) {
        return getContext().getResponse().setBody(stored);
      }
      post.commentCount = comments;
      post.likeCount = likes;
      var options = { etag: post._etag };
      checkAccepted(collection.replaceDocument(post._self, post, options, function (err) {
        if (err) throw err;
        getContext().getResponse().setBody(stored);
      }));
    }));
  }

  next();
}
